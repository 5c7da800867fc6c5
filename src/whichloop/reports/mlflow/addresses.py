"""What stores MLflow can have, and why one fails. Import this before MLflow, which reads its environment when imported."""

from __future__ import annotations

import os
from urllib.parse import unquote

from whichloop.protocol.redact import MARK, USERINFO, public_address

for _name, _value in {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",  # MLflow ignores the customary 1
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # stdout is for results
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
}.items():
    os.environ.setdefault(_name, _value)

DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
MAX_REASON = 300


def reason(error: Exception, uri: str) -> str:
    """Return why tracking failed, in one line without secrets."""
    text = " ".join(str(error).split())
    userinfo = USERINFO.search(uri)
    password = userinfo.group()[:-1].partition(":")[2] if userinfo else ""
    for spelling in filter(None, (password, unquote(password))):
        text = text.replace(spelling, MARK)
    text = public_address(text)[:MAX_REASON]
    return text if isinstance(error, ValueError | ConnectionError) and text else f"{type(error).__name__}: {text}"
