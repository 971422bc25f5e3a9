"""Changes the embedder of a store to another one, slowly enough to be killed at any point."""

import asyncio
import sys

from casenotes.recall import reembed as reembedding
from casenotes.stores import create_store
from casenotes.testing import HashEmbedder

reembedding.BATCH = 4
reembedding.DROPPED_AT_ONCE = 3


async def main(url: str, dimensions: int) -> None:
    store = create_store(url)
    await store.open()
    print("ready", flush=True)
    await reembedding.reembed(store, HashEmbedder(dimensions), lambda done, total: None)
    await store.close()
    print("done", flush=True)


asyncio.run(main(sys.argv[1], int(sys.argv[2])))
