from .join import ContextJoin as ContextJoin
from .settings import ContextSettings as ContextSettings
from .write import ContextReport as ContextReport, write_contexts as write_contexts
