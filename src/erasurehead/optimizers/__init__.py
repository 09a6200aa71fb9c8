"""How the model moves: optimizers that are asked for an order and told the estimate, and their step sizes."""

from erasurehead.optimizers.base import Constant as Constant
from erasurehead.optimizers.base import Geometric as Geometric
from erasurehead.optimizers.base import GradientDescent as GradientDescent
from erasurehead.optimizers.base import HeavyBall as HeavyBall
from erasurehead.optimizers.base import InverseTime as InverseTime
from erasurehead.optimizers.base import Nesterov as Nesterov
from erasurehead.optimizers.base import Optimizer as Optimizer
from erasurehead.optimizers.base import Schedule as Schedule
