"""ModelArts: `data_url` and `train_url` arguments, and local paths mapped to them.

The script gets the two arguments and one call after parsing them; the mapping itself is a small
module next to the script, with a table to fill in."""

from jumar.port.adapt.script import Adapted, Script, imports, parse_call
from jumar.port.records import Words

CODE = "JP911"
PACKAGE = "ascend_modelarts_function"
_ARGUMENTS = (
    ("--data_url", "/home/ma-user/modelarts/inputs/data_url_0"),
    ("--train_url", "/home/ma-user/modelarts/outputs/train_url_0/"),
)


def adapt(script: Script) -> Adapted:
    """Add the arguments and the call, or say why not."""
    tree = script.parsed()
    found = parse_call(tree) if tree is not None else None
    if tree is None or found is None:
        return script.refused(
            CODE,
            Words(
                "The script does not parse its arguments with argparse.",
                "脚本未使用 argparse 解析参数。",
            ),
            Words(
                "add arguments --data_url and --train_url and use them as the paths of data and results",
                "请添加 --data_url 与 --train_url 参数，并将其作为数据与结果路径",
            ),
        )
    statement, parser, args = found
    missing = [(n, d) for n, d in _ARGUMENTS if n not in script.source.text]
    if not missing:
        return script.done()
    script.insert_before(
        CODE,
        statement,
        [f'{parser}.add_argument("{n}", type=str, default="{d}")' for n, d in missing],
    )
    script.insert_after(CODE, statement, [f"map_paths({args}.data_url, {args}.train_url)"])
    last = list(imports(tree))
    line = f"from {PACKAGE}.modelarts_path_manager import map_paths"
    if last:
        script.insert_after(CODE, last[-1], [line])
    else:
        script.insert_before(CODE, tree.body[0], [line])
    folder = script.path.rpartition("/")[0]
    base = f"{folder}/{PACKAGE}" if folder else PACKAGE
    return script.done(
        (
            (f"{base}/__init__.py", b""),
            (f"{base}/modelarts_path_manager.py", _MANAGER.encode()),
            (f"{base}/path_mapping_config.py", _CONFIG.encode()),
        )
    )


_CONFIG = '''"""Which paths of the script are ModelArts inputs and outputs.

Fill in the paths as the script writes them; relative ones start from the working directory."""

INPUTS = [
    # "./data",
]
OUTPUTS = [
    # "./checkpoints",
]
'''

_MANAGER = '''"""Map the paths of a script to the folders that ModelArts provides."""

import os

from ascend_modelarts_function.path_mapping_config import INPUTS, OUTPUTS


def map_paths(data_url, train_url):
    """Link every path of the table to its folder; obs:// addresses are copied to /cache first."""
    for path in INPUTS:
        _link(path, _local(data_url))
    for path in OUTPUTS:
        os.makedirs(train_url, exist_ok=True)
        _link(path, train_url)


def _local(url):
    if not url.startswith("obs://"):
        return url
    import moxing

    place = os.path.join("/cache", os.path.basename(url.rstrip("/")))
    moxing.file.copy_parallel(url, place)
    return place


def _link(path, target):
    if os.path.lexists(path):
        return
    folder = os.path.dirname(os.path.abspath(path))
    os.makedirs(folder, exist_ok=True)
    os.symlink(os.path.abspath(target), path, target_is_directory=True)
'''
