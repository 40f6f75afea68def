from executor_svc.tables import METADATA
from services.storage.migrate import run_env

run_env(METADATA)
