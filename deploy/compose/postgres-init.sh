# Gives each service that stores data a database and a role of its own, not a superuser, which can connect to that
# database only. Runs once, on an empty data folder. It can be run again by hand: it then sets the passwords of .env, and
# gives the services what belonged to the role `nestor`, which owned all four databases in older installations.
# The image's entrypoint sources or executes this file, so it sets no shell options.
psql --no-psqlrc --quiet -v ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres <<'SQL'
SET client_min_messages = warning;
-- From the environment: arguments of a process are visible to others.
\getenv gateway NESTOR_GATEWAY_DB_PASSWORD
\getenv retriever NESTOR_RETRIEVER_DB_PASSWORD
\getenv demo NESTOR_DEMO_DB_PASSWORD
\getenv executor NESTOR_EXECUTOR_DB_PASSWORD
CREATE TEMPORARY TABLE service (name text, password text);
INSERT INTO service VALUES
  ('nestor_gateway', :'gateway'), ('nestor_retriever', :'retriever'),
  ('nestor_demo', :'demo'), ('nestor_executor', :'executor');
SELECT format('CREATE ROLE %I', name) FROM service WHERE name NOT IN (SELECT rolname FROM pg_roles) \gexec
SELECT format('ALTER ROLE %I LOGIN PASSWORD %L', name, password) FROM service \gexec
SELECT format('CREATE DATABASE %I', name) FROM service WHERE name NOT IN (SELECT datname FROM pg_database) \gexec
SELECT format('ALTER DATABASE %I OWNER TO %1$I', name) FROM service \gexec
SELECT format('REVOKE ALL ON DATABASE %I FROM PUBLIC', name) FROM service \gexec
REVOKE ALL ON DATABASE postgres, template1 FROM PUBLIC;
SELECT count(*) > 0 AS older FROM pg_roles WHERE rolname = 'nestor' \gset
\if :older
ALTER ROLE nestor NOLOGIN PASSWORD NULL;
\connect nestor_gateway
REASSIGN OWNED BY nestor TO nestor_gateway;
\connect nestor_retriever
REASSIGN OWNED BY nestor TO nestor_retriever;
\connect nestor_demo
REASSIGN OWNED BY nestor TO nestor_demo;
\connect nestor_executor
REASSIGN OWNED BY nestor TO nestor_executor;
\endif
SQL
