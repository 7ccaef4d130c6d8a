const chosen = document.getElementById(`page-${location.search.slice(1)}`);
if (chosen !== null) {
  const bytes = Uint8Array.from(atob(chosen.textContent), (sign) => sign.charCodeAt(0));
  const text = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"))).text();
  const back = Object.assign(document.createElement("a"), { href: "?", textContent: document.title });
  document.open();
  document.write(text);
  document.close();
  document.querySelector(".brand").append(" ", back);
}
