"""The ends of the ways between the ranks of a team: beside each other on one host, or over a network.

Unlike workers of an engine, ranks have no coordinator: they find each other by the name of their team.
"""
