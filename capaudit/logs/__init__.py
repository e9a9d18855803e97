"""What went wrong in a run: reads a log, recognises what libraries print, and finds the place."""

from capaudit.logs.diagnosis import Diagnosis, Incident, diagnose
from capaudit.logs.findings import KnownFinding, load_findings
from capaudit.logs.reading import open_log
from capaudit.logs.tracebacks import Frame

__all__ = ["Diagnosis", "Frame", "Incident", "KnownFinding", "diagnose", "load_findings", "open_log"]
