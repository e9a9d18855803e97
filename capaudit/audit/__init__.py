"""The audit: from options to a result of classified operations and findings."""

from capaudit.audit.options import AuditOptions
from capaudit.audit.running import audit, find_boundaries

__all__ = ["AuditOptions", "audit", "find_boundaries"]
