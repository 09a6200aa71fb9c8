"""Figures and tables of runs and codes: time, quality of the model, stragglers, costs of codes."""

from erasurehead.reports.code_curves import draw_codes as draw_codes
from erasurehead.reports.code_tables import cost_table as cost_table
from erasurehead.reports.code_tables import residual_table as residual_table
from erasurehead.reports.descents import GAPS as GAPS
from erasurehead.reports.descents import Descent as Descent
from erasurehead.reports.descents import descent_markdown as descent_markdown
from erasurehead.reports.descents import descent_table as descent_table
from erasurehead.reports.figures import draw_comparison as draw_comparison
from erasurehead.reports.rendering import render_table as render_table
from erasurehead.reports.rendering import to_markdown as to_markdown
from erasurehead.reports.table import Basis as Basis
from erasurehead.reports.table import ComparisonRow as ComparisonRow
from erasurehead.reports.table import comparison_table as comparison_table
