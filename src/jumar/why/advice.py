"""What an exception tells beyond its kind: what its message advises, whose code raised it, what was called.

The answer's words are those of its cause; from here come the names in it."""

import re
from dataclasses import dataclass, field

from jumar.why.apis import Api, api_of
from jumar.why.cann import before_report
from jumar.why.raised import Raised

# Sentences of a message that say what to do. What one is only asked to report, or told of the documentation, is none.
_SENTENCE = re.compile(r"(?<=[.!?;])\s+(?=[A-Z`'\"(])|\n+|(?<=\.)\s{2,}")
_ADVISES = re.compile(
    r"(?i)^(?:\W*|.{0,80}?[,:;] |.{0,60}\bthen )(?:please |you (?:can|should|must|may|need to|might want to|have to) |"
    r"consider |try |use |set |add |pass |install |run |make sure|ensure|check |upgrade |update |reinstall |"
    r"(?:correct|fix|adjust) (?:your|the|its) |(?:rename|delete|convert|download|redownload|re-download|verify|avoid) |"
    r"remove |specify |provide |call |enable |disable |increase |reduce |decrease |change |replace |switch |"
    r"(?:if|when|to) [^.]{3,120}?, (?:please |you (?:can|should|must|may) |consider |try |use |set |add |pass |install |run |do |call ))"
    r"|(?i:\binstead of\b.{0,80}\buse\b|\buse\b.{1,80}\binstead\b|\bmust be (?:one of|in|set|between|either)\b|\b(?:available|supported|valid|possible|allowed) "
    r"(?:options|values|choices|keys|types|names|\w+) (?:are|is)\b|\bshould be (?:one of|either|set)\b|\bdid you mean\b|\bdid you forget\b|请)"
)
_NO_ADVICE = re.compile(
    r"(?i)report (?:an?|this|the) (?:bug|issue|enhancement)|suspect a bug|(?:open|creat\w{1,3}|rais\w{1,3}) an issue|file (?:a|an) (?:bug|issue)|for more (?:details|information)|see (?:the )?(?:documentation|https?:)"
    # `call aclnnAdd failed` names what was called.
    r"|[Cc]heck failed\b|[Cc]heck the documentation of torch\.load|\bcall (?:to|aclnn)\b.{0,80}\bfailed|\bcall aclnn\w+ failed|check the stack trace above"
    r"|[Cc]onsider finding a workaround|look up dimensions by name|[Pp]lease search \"CANN|[Rr]efer to the documentation of|^Run task for graph|stacktrace below|call might be incorrect|CUDA_LAUNCH_BLOCKING|Compile with `?TORCH_USE_CUDA_DSA|TORCH_LOGS|TORCHDYNAMO_VERBOSE"
)
# What whoever posted a log wrote below it: no library says I, nor asks for help.
_POSTED = re.compile(
    r"\b(?:I|I'm|I've|[Mm]y|me|[Tt]hank(?:s| you))\b|(?i:screenshots?|\bplease (?:help|reproduce|advise|fill)|\bhow (?:can|do|to)\b.{0,60}\?"
    r"|\bpost here\b|open a bug|bug report|if applicable|let (?:us|me) know|similar issue|steps to reproduce|expected behaviou?r)"
)
# What a message quotes, and words that only code has.
_NAMED = re.compile(
    r"(?<=[`'\"])--?[\w-]{2,40}(?=[`'\"])|(?<=[`'\"])[A-Za-z_][\w.]{2,40}(?=[`'\"])|\b[a-z]+_[a-z0-9_]+\b"
)
_MOST_NAMES = 3
# Names that say of what type something is, not what it is.
_TYPES = frozenset(
    (
        *(
            "int",
            "str",
            "float",
            "bool",
            "list",
            "dict",
            "tuple",
            "set",
            "bytes",
            "None",
            "NoneType",
        ),
        *(
            "True",
            "False",
            "numpy.ndarray",
            "torch.Tensor",
            "Tensor",
            "ndarray",
            "function",
            "type",
        ),
        *("e.g", "i.e", "object", "class", "all", "auto", "and", "not", "string", "array"),
        # What any project has a hundred of: to search for it finds nothing.
        *("cuda", "cpu", "npu", "gpu", "mps", "meta", "model", "data", "input", "output", "value"),
        *("expected", "recorded", "train", "test", "val", "name", "path", "key", "label", "labels"),
    )
)
_GUESS = "Did you mean: "
_RAISES = re.compile(r"^[\w.]*(?:Error|Exception): ")
_MOST_ADVICE, _SHORTEST = 2, 12
_MOST_PACKAGES = 2
_LONGEST = 400
# unsloth writes what it makes of trl's trainers into a folder beside the script.
_PACKAGE = re.compile(
    r"(?:site|dist)-packages/(?P<name>[A-Za-z0-9_]+)(?:/|\.py)|(?P<made>unsloth)_compiled_cache/"
)
# A call that does not fit names the function, which tells whose it is.
_CALLED = re.compile(
    r"TypeError: (?:(?P<trl>(?:SFT|[A-Z]*PO|RLOO|GKD|Reward)(?:Trainer|Config))|(?P<peft>(?:Lora|Peft)\w+)|(?P<accelerate>Accelerator)"
    r"|(?P<transformers>Trainer|Seq2Seq\w+|TrainingArguments|seed_worker|\w+(?:ForCausalLM|ForConditionalGeneration)|PreTrained\w+)"
    r"|(?P<diffusers>UNet2D\w+|Autoencoder\w+|StableDiffusion\w+))[.(]\S*?\)? (?:got|takes|missing)"
)
# Its Trainer is not that of transformers.
_LIGHTNING = re.compile(r"-packages/(?:pytorch_)?lightning/")
# Python guesses another name that there is; where a version lacks the name, the guess means something else.
_GUESSED = re.compile(
    r"\b\w*Tokenizer\w* has no attribute|'\w*(?:Config|Arguments|Trainer|Model|Module|Processor|Tokenizer)\w*' object has no attribute|cannot import name|module '[\w.]+' has no attribute"
)
# What these raise is mostly about what they were given: the caller tells more.
_TOOLS = frozenset(
    ("torch", "numpy", "pandas", "tensorflow", "keras", "six", "tqdm", "click", "scipy")
)
# Decorators that other packages take from there only hand the call on; and who answers that an attribute is not there was asked for it.
_WRAPS = re.compile(
    r", in (?:\w*wrapp\w*|inner\w*|decorat\w*|_(?:wrapped_)?call_impl|_fn|__getattr(?:ibute)?__)$|/utils/deprecation\.py"
)
# The code that comes with a model's weights (`trust_remote_code`).
REMOTE = "transformers_modules"
_HANDS_ON = re.compile(r"huggingface_hub/utils/|, in __getattr(?:ibute)?__$")
DISTRIBUTIONS = {
    "cv2": "opencv-python",
    "PIL": "Pillow",
    "yaml": "PyYAML",
    "sklearn": "scikit-learn",
    "skimage": "scikit-image",
    "google": "protobuf",
    "mmseg": "mmsegmentation",
    "fitz": "PyMuPDF",
    "Crypto": "pycryptodome",
    "bs4": "beautifulsoup4",
    "attr": "attrs",
    "dateutil": "python-dateutil",
    "git": "GitPython",
    "faiss": "faiss-cpu",
    "tensorboard": "tensorboard",
    "flash_attn": "flash-attn",
    "pytorch_lightning": "pytorch-lightning",
    "huggingface_hub": "huggingface-hub",
    "OpenSSL": "pyOpenSSL",
    "dotenv": "python-dotenv",
    "jwt": "PyJWT",
    "Levenshtein": "python-Levenshtein",
    "umap": "umap-learn",
    "serial": "pyserial",
    "magic": "python-magic",
    "usb": "pyusb",
    "MeCab": "mecab-python3",
    "wx": "wxPython",
    "pl_bolts": "lightning-bolts",
    "torch_geometric": "torch-geometric",
    "ldm": "latent-diffusion",
    "segment_anything": "segment-anything",
    "clip": "git+https://github.com/openai/CLIP.git",
    "swift": "ms-swift",
    # Not on PyPI, or another package there.
    "detectron2": "--no-build-isolation git+https://github.com/facebookresearch/detectron2.git",
    "pytorch3d": "--no-build-isolation git+https://github.com/facebookresearch/pytorch3d.git",
    "nvdiffrast": "--no-build-isolation git+https://github.com/NVlabs/nvdiffrast.git",
    "tinycudann": "--no-build-isolation git+https://github.com/NVlabs/tiny-cuda-nn.git#subdirectory=bindings/torch",
    "diff_gaussian_rasterization": "--no-build-isolation git+https://github.com/graphdeco-inria/diff-gaussian-rasterization.git",
    "groundingdino": "--no-build-isolation git+https://github.com/IDEA-Research/GroundingDINO.git",
    "pointnet2_ops": "--no-build-isolation git+https://github.com/erikwijmans/Pointnet2_PyTorch.git#subdirectory=pointnet2_ops_lib",
    "llava": "git+https://github.com/haotian-liu/LLaVA.git",
    "taming": "git+https://github.com/CompVis/taming-transformers.git",
    "mindspeed": "-e ., in a checkout of Ascend's MindSpeed",
    "apex": "apex, from NVIDIA's sources",
    "pycocotools": "pycocotools",
    "tensorboardX": "tensorboardX",
    "sentencepiece": "sentencepiece",
    "te": "the wheels of CANN's own folder (te, topi, hccl)",
    "acl": "CANN's toolkit (source set_env.sh)",
    "tbe": "CANN's toolkit (source set_env.sh)",
    "hccl": "the wheels of CANN's own folder (te, topi, hccl)",
}
_MODULE = re.compile(r"No module named '?([\w.]+)'?")
# Folders of people's own repositories; a package of that name is hardly meant.
_OWN_NAMES = frozenset(
    (
        *(
            "utils",
            "util",
            "models",
            "model",
            "src",
            "lib",
            "libs",
            "tools",
            "core",
            "config",
            "configs",
            "data",
        ),
        *(
            "dataset",
            "dataloader",
            "dataloaders",
            "networks",
            "network",
            "nets",
            "modules",
            "module",
            "train",
        ),
        *(
            "options",
            "common",
            "helpers",
            "scripts",
            "layers",
            "losses",
            "loss",
            "engine",
            "modeling",
            "trainer",
        ),
        *(
            "solver",
            "metrics",
            "eval",
            "evaluation",
            "test",
            "tests",
            "vision",
            "ops",
            "runner",
            "experiments",
            # Compiled parts of projects that no registry has.
            "pcdet",
            "adet",
            "maskrcnn_benchmark",
            "MultiScaleDeformableAttention",
            "dcn_v2",
        ),
    )
)


@dataclass(frozen=True, slots=True)
class Told:
    """What else there is to say of an exception."""

    api: Api | None = None
    sentences: tuple[str, ...] = ()
    """The names of sentences that are added to the remedy (`en.toml`, `also`)."""
    values: dict[str, str] = field(default_factory=dict[str, str])


def told_by(one: Raised) -> Told:
    """What an exception tells beyond its kind."""
    message = "\n".join(text.strip() for text in before_report(one.lines))
    values: dict[str, str] = {}
    sentences: list[str] = []
    advised = advice(message)
    api = api_of(one.lines[0].text, one.source, one.frames)
    is_replaced = api is not None and bool(api.instead)
    if advised and not (advised.startswith(_GUESS) and (is_replaced or _GUESSED.search(message))):
        sentences.append("advice")
        values["advice"] = advised
    if api is not None:
        values |= _values_of(api, one.frames)
        if api.instead:
            sentences.append("instead")
        elif api.is_gone and "(" in api.name:
            sentences.append("dropped")
    missing = _MODULE.search(one.lines[0].text)
    if api is None and missing is not None:
        top = missing[1].partition(".")[0]
        if top not in _OWN_NAMES and "." not in missing[1]:
            sentences.append("install" if top in DISTRIBUTIONS else "perhaps")
            values["install"] = DISTRIBUTIONS.get(top, top)
    parties = _parties(one)
    if api is None and parties:
        sentences.append("between" if len(parties) > 1 else "inside")
        values |= dict(zip(("package", "caller"), parties, strict=False))
    named = dict.fromkeys(_NAMED.findall(_RAISES.sub("", one.lines[0].text)))
    names = [name for name in named if name not in _TYPES]
    if names:
        sentences.append("names")
        values |= {"names": ", ".join(names[:_MOST_NAMES]), "first": names[0]}
    return Told(api, tuple(sentences), values)


def _values_of(api: Api, frames: str) -> dict[str, str]:
    """What is told of a name that only some versions have, and of who asks for it."""
    values = {
        "api": api.name,
        "package": api.package,
        "version": api.version,
        "install": api.install,
    }
    function, has_default, given = api.name.partition("()")
    if has_default and given:
        values |= {"function": function, "given": given}
    caller = _asker(frames, api.package)
    if caller is not None:
        values["caller"] = caller
    if api.instead:
        values["instead"] = api.instead
    return values


def advice(message: str) -> str:
    """The sentences of a message that say what to do; empty if there is none."""
    found = [
        sentence.strip()
        for sentence in _SENTENCE.split(_RAISES.sub("", message))
        if len(sentence.strip()) >= _SHORTEST
        and _ADVISES.search(sentence.strip())
        and not _NO_ADVICE.search(sentence)
        and not _POSTED.search(sentence)
        # What it announces stands below it, and is not quoted.
        and not sentence.rstrip().endswith((":", "\uff1a"))
    ]
    told = ""
    for sentence in found[:_MOST_ADVICE]:
        longer = f"{told} {sentence}".strip()
        # What breaks off in the middle is worse than nothing.
        told = longer if len(longer) <= _LONGEST else told
    return told


def _parties(one: Raised) -> list[str]:
    """The packages that do not agree: whose function was called, where its name tells that, and who called it."""
    packages = packages_of(one.frames)
    called = _CALLED.search(one.lines[0].text)
    owner = None if called is None else called.lastgroup
    if owner is None or owner in packages[:1] or _LIGHTNING.search(one.frames):
        return packages
    return [owner, *packages][:_MOST_PACKAGES]


def _asker(frames: str, owner: str) -> str | None:
    """The package whose code asks another one, the owner, for a name that it does not have; None if that is the script's own."""
    for frame in reversed(frames.split("\n")):
        name = _PACKAGE.search(frame)
        is_between = name is None and ("/lib/python" in frame or "<frozen" in frame)
        if is_between or _WRAPS.search(frame):
            continue
        if name is None and REMOTE in frame:
            return REMOTE
        top = None if name is None else name["name"]
        if top is None or top.replace("_", "-") != owner.replace("_", "-"):
            return None if top is None else DISTRIBUTIONS.get(top, top)
    return None


def packages_of(frames: str) -> list[str]:
    """The package whose code raised it, or called a tool that did, and the one that had called it; none if that is the script's own code."""
    found: list[str] = []
    for frame in reversed(frames.split("\n")):
        name = _PACKAGE.search(frame)
        if _HANDS_ON.search(frame):
            continue
        if name is None:
            if "/lib/python" in frame or "<frozen" in frame:
                continue
            break
        top = name["name"] or name["made"]
        package = DISTRIBUTIONS.get(top, top)
        if top not in _TOOLS and package not in found:
            found.append(package)
        if len(found) == _MOST_PACKAGES:
            break
    return found
