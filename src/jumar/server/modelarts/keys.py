"""What a user's clients of ModelArts need: AK, SK, project and endpoint."""

from urllib.parse import urlsplit

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from jumar.server.api.s3 import KeysRequest, admit_users
from jumar.server.edge.auth import Member
from jumar.server.edge.exchange import answer
from jumar.server.edge.site import API, Site, SiteOf
from jumar.server.modelarts.caller import project_of
from jumar.spec.records import ModelArtsKeys
from jumar.store.door import door_endpoint
from jumar.store.keys import Keys, renew_keys, user_keys

router = APIRouter(tags=["modelarts"], prefix=API)


@router.post(
    "/me/modelarts-keys", response_model=ModelArtsKeys, summary="My keys for ModelArts' API"
)
async def my_keys(request: Request, site: SiteOf, user: Member, wanted: KeysRequest) -> Response:
    """AK and SK of the user who asks: the same pair as for the S3 door."""
    keys = await run_in_threadpool(_keys, site, user.name, wanted.renew)
    base = urlsplit(str(request.base_url))
    door = site.door
    return answer(
        ModelArtsKeys(
            endpoint=f"{base.scheme}://{base.netloc}",
            project_id=await run_in_threadpool(project_of, site, user.name),
            ak=keys.access_key,
            sk=keys.secret_key,
            obs_endpoint=door
            and door_endpoint(
                base.hostname or "127.0.0.1", door.port, is_secure=door.certificate is not None
            ),
        )
    )


def _keys(site: Site, user: str, renew: bool) -> Keys:
    keys = (renew_keys if renew else user_keys)(site.stores.home, user)
    if site.door is not None:
        if renew:
            admit_users(site)
        site.door.wait_for_key(user)
    return keys
