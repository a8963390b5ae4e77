"""The pages that people open in a browser: rendered here, readable without scripts."""

from jumar.server.web.job_pages import job_router
from jumar.server.web.mount import mount_pages
from jumar.server.web.render import error_page

__all__ = ["error_page", "job_router", "mount_pages"]
