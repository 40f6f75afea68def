# Runs once, on an empty data folder. Creates one role, not a superuser, that owns one database per service.
# The image's entrypoint sources or executes this file, so it sets no shell options.
psql --no-psqlrc --quiet -v ON_ERROR_STOP=1 -v password="$NESTOR_DB_PASSWORD" --username "$POSTGRES_USER" --dbname postgres <<'SQL'
CREATE ROLE nestor LOGIN PASSWORD :'password';
CREATE DATABASE nestor_gateway OWNER nestor;
CREATE DATABASE nestor_retriever OWNER nestor;
CREATE DATABASE nestor_demo OWNER nestor;
CREATE DATABASE nestor_executor OWNER nestor;
SQL
