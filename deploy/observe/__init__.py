"""What watches a running Nestor: rules for Prometheus, boards for Grafana."""
