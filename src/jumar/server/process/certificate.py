"""The certificate of a server: one that was given, or one made for this home."""

import contextlib
import ipaddress
import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

from jumar.errors import BadInput, HomeUnusable
from jumar.settings import Settings
from jumar.tls import Certificate

OWN = "self-signed"
"""In place of a file's name: a certificate that the server makes itself."""
_DAYS = 3650
_LIMIT_S = 60
_CONFIG = """\
[req]
prompt = no
distinguished_name = name
x509_extensions = use
[name]
CN = {name}
[use]
subjectAltName = {others}
basicConstraints = critical, CA:TRUE, pathlen:0
keyUsage = critical, digitalSignature, keyCertSign
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
"""


def certificate_of(settings: Settings) -> Certificate | None:
    """What the settings name, made if need be; None where the server does not speak TLS."""
    if settings.tls_cert == OWN:
        return own_certificate(settings.home, settings.host)
    if bool(settings.tls_cert) != bool(settings.tls_key):
        there, missing = ("--tls-cert", "--tls-key")[:: 1 if settings.tls_cert else -1]
        raise BadInput(
            f"{there} is given and {missing} is missing",
            hint="jumar up --tls-cert FILE --tls-key FILE, or jumar up --tls for one that is made here",
        )
    if not settings.tls_cert:
        return None
    return Certificate(Path(settings.tls_cert).absolute(), Path(settings.tls_key).absolute())


def own_certificate(home: Path, host: str) -> Certificate:
    """The self-signed one of this home, for this machine's names; kept once it is made."""
    folder = home / "tls"
    made = Certificate(folder / "cert.pem", folder / "key.pem")
    if made.path.exists() and made.key.exists():
        return made
    try:
        aside = Path(tempfile.mkdtemp(prefix=".tls-", dir=home))
        try:
            _make(aside, _names(host))
            if folder.exists():
                # Half of a pair is of no use.
                shutil.rmtree(folder)
            aside.rename(folder)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    except OSError as error:
        raise HomeUnusable(f"cannot make a certificate in {folder}: {error.strerror}") from error
    return made


def _names(host: str) -> list[str]:
    """What this machine is called, the usual name first."""
    name = socket.gethostname()
    names = [name, socket.getfqdn(), host, "localhost", "127.0.0.1", "::1"]
    with contextlib.suppress(OSError):
        names += [str(found[4][0]) for found in socket.getaddrinfo(name, None)]
    return [one for one in dict.fromkeys(names) if one not in ("", "0.0.0.0", "::")]


def _make(folder: Path, names: list[str]) -> None:
    others = ", ".join(f"{'IP' if _is_address(name) else 'DNS'}:{name}" for name in names)
    config = folder / "openssl.cnf"
    # A common name has at most 64 characters.
    config.write_text(_CONFIG.format(name=names[0][:64], others=others))
    key = folder / "key.pem"
    os.close(os.open(key, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600))
    curve = ["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(key)]
    _openssl(curve)
    sign = ["req", "-new", "-x509", "-sha256", "-days", str(_DAYS), "-key", str(key)]
    _openssl([*sign, "-config", str(config), "-out", str(folder / "cert.pem")])
    config.unlink()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _openssl(words: list[str]) -> None:
    try:
        made = subprocess.run(
            ["openssl", *words],
            check=False,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=_LIMIT_S,
        )
    except FileNotFoundError:
        raise BadInput(
            "a certificate is made with openssl, which is not installed",
            hint="install it, or bring a certificate: jumar up --tls-cert FILE --tls-key FILE",
        ) from None
    except subprocess.TimeoutExpired as error:
        raise HomeUnusable(f"openssl took longer than {_LIMIT_S} s") from error
    if made.returncode:
        raise HomeUnusable(f"openssl could not make a certificate: {made.stderr.strip()[-400:]}")
