"""How the model moves: optimizers that are asked for an order and told what came of it, and their step sizes."""

from erasurehead.optimizers.base import Answer as Answer
from erasurehead.optimizers.base import Optimizer as Optimizer
from erasurehead.optimizers.base import PartialGradient as PartialGradient
from erasurehead.optimizers.first_order import FirstOrder as FirstOrder
from erasurehead.optimizers.first_order import GradientDescent as GradientDescent
from erasurehead.optimizers.first_order import HeavyBall as HeavyBall
from erasurehead.optimizers.first_order import Nesterov as Nesterov
from erasurehead.optimizers.quasi_newton import QuasiNewton as QuasiNewton
from erasurehead.optimizers.schedules import Constant as Constant
from erasurehead.optimizers.schedules import Geometric as Geometric
from erasurehead.optimizers.schedules import InverseTime as InverseTime
from erasurehead.optimizers.schedules import Schedule as Schedule
