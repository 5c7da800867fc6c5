"""Finished things shown: pages, MLflow, data frames. Nothing below imports it."""
