"""`python tools/build-launch-pyz.py [OUTPUT]`; the default is dist/jumar-launch.pyz."""

import sys
from pathlib import Path

from jumar.site.one_file import build_launcher

build_launcher(Path(sys.argv[1] if len(sys.argv) > 1 else "dist/jumar-launch.pyz"))
