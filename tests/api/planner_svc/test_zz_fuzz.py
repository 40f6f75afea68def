import sys
sys.path.insert(0,'/work/main')
from hypothesis import settings, HealthCheck
import tests.support.fuzz as f
f.BOUNDED = settings(max_examples=1500, deadline=None, suppress_health_check=list(HealthCheck), database=None)
exec(open('/work/main/tests/api/planner_svc/test_planner_schema.py').read().replace('\n@SCHEMA','\n@SCHEMA'))
