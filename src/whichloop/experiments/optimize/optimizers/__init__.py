"""DSPy's teleprompters, one file each, their options typed and documented; `OPTIMIZER` names the class."""
