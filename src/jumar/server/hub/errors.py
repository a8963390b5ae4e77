"""Errors as the Hugging Face clients read them: a code in a header, the words in the body."""

from jumar.errors import BadInput, JumarError, NotSignedIn
from jumar.hub.reading import EntryNotFound, RevisionNotFound
from jumar.hub.repositories import RepoNotFound
from jumar.server.hub.call import BAD_TOKEN, Call, ascii_line

_CODES: dict[type[JumarError], str] = {
    RepoNotFound: "RepoNotFound",
    RevisionNotFound: "RevisionNotFound",
    EntryNotFound: "EntryNotFound",
}


async def refuse(call: Call, error: JumarError) -> None:
    """Answer with an error."""
    status = 400 if isinstance(error, BadInput) else error.status
    if isinstance(error, RepoNotFound) and call.user is None:
        status = 401
    # The client shows these words as they are, and knows them.
    is_bad_token = isinstance(error, NotSignedIn) and error.message == BAD_TOKEN
    text = error.message
    if isinstance(error, RepoNotFound) and call.only_reads:
        text = f"{text} on this server; for another hub set HF_ENDPOINT in the job"
    if error.hint and not is_bad_token:
        text = f"{text} ({error.hint})"
    headers = {"X_Error_Message": ascii_line(text)}
    code = _CODES.get(type(error))
    if code is not None:
        headers["X_Error_Code"] = code
    if isinstance(error, EntryNotFound) and error.commit:
        # By it the client remembers that the file does not exist.
        headers["X_Repo_Commit"] = error.commit
    await call.answer(status, {"error": text}, **headers)
