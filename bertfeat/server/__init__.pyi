from .app import create_app as create_app
from .opening import open_service as open_service
from .running import log_as_json as log_as_json, run_server as run_server
from .service import Service as Service
from .settings import ServerSettings as ServerSettings
