"""LangChain's retrievers and chains as systems under test: run where it is installed (scripts/beside_neighbours.sh does)."""

# mypy: disable-error-code="misc"

import asyncio

from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnableParallel, RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore

from germane import aevaluate, evaluate

TEXTS = {"d1": "the moon makes the tides", "d2": "bread needs yeast"}
QUESTIONS = [
    {"id": "a", "query": TEXTS["d1"], "qrels": {"d1": 1}},
    {"id": "b", "query": TEXTS["d2"], "qrels": {"d2": 1}},
]
store = InMemoryVectorStore(DeterministicFakeEmbedding(size=16))
store.add_documents([Document(id=name, page_content=text) for name, text in TEXTS.items()])
retriever = store.as_retriever()
chain = RunnableParallel(context=retriever, question=RunnablePassthrough()).assign(
    answer=RunnableLambda(lambda _: "because")
)


class InMetadata(BaseRetriever):
    """A store that gives its documents no ids of their own."""

    def _get_relevant_documents(self, query, *, run_manager):
        return [
            Document(page_content=found.page_content, metadata={"doc_id": found.id})
            for found in store.similarity_search(query)
        ]


class Asynchronous(BaseRetriever):
    """A retriever with the asynchronous method alone."""

    def _get_relevant_documents(self, query, *, run_manager):
        raise NotImplementedError

    async def _aget_relevant_documents(self, query, *, run_manager):
        await asyncio.sleep(0)
        return store.similarity_search(query)


for target in (
    retriever,
    chain,
    InMetadata(),
    Asynchronous().ainvoke,
    store.similarity_search_with_score,
    lambda query: {"result": "because", "source_documents": retriever.invoke(query)},
):
    report = evaluate(QUESTIONS, "RR", target=target)
    assert (report["RR"].mean, report["RR"].n) == (1.0, 2), (target, report)
report = asyncio.run(aevaluate(QUESTIONS, "RR", target=Asynchronous().ainvoke))
assert report["RR"].mean == 1.0, report
