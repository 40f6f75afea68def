from executor_svc.storage import METADATA
from services.storage.migrate import run_env

run_env(METADATA)
