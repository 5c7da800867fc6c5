"""Numbers, tables and traces as text; nothing here knows of a run directory."""
