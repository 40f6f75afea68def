"""Monitoring of a running Nestor: rules for Prometheus, boards for Grafana."""
