"""Show finished runs: pages, MLflow, data frames. No floor below imports this one."""
