"""The audit: from options to a result of classified operations and findings."""

from capaudit.audit.engine import audit, find_boundaries
from capaudit.audit.options import AuditOptions

__all__ = ["AuditOptions", "audit", "find_boundaries"]
