from .processes import Processes as Processes
from .ray_cluster import RayCluster as RayCluster
