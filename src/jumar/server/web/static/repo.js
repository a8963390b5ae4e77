// Files from the browser into a repository: each is sent as it is, then all become one commit.
"use strict";

(() => {
  const form = document.getElementById("repo-upload");
  if (!form) return;
  const said = form.querySelector("[role=status]");
  const place = form.dataset.place;

  async function ask(path, options) {
    const answer = await fetch(`/api/v1/${path}`, { method: "POST", ...options });
    const values = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new Error([values.error?.message ?? answer.statusText, values.error?.hint].filter(Boolean).join(". "));
    return values;
  }

  function chosen() {
    const into = form.dataset.into ? `${form.dataset.into}/` : "";
    const files = [...form.elements.files.files].map((file) => [into + file.name, file]);
    for (const file of form.elements.folder.files) files.push([into + file.webkitRelativePath, file]);
    return files.filter(([path]) => !path.split("/").includes(".git"));
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const files = chosen();
    if (!files.length) return;
    form.querySelector("button").disabled = true;
    try {
      const committed = {};
      for (const [index, [path, file]] of files.entries()) {
        said.textContent = `${index + 1}/${files.length} ${path}`;
        committed[path] = (await ask(`repo-objects/${place}`, { body: file, headers: { "Content-Type": "application/octet-stream" } })).oid;
      }
      const body = JSON.stringify({ files: committed, branch: form.dataset.branch, message: form.elements.message.value });
      await ask(`repos/${place}/commits`, { body, headers: { "Content-Type": "application/json" } });
      location.reload();
    } catch (error) {
      said.textContent = error.message;
      form.querySelector("button").disabled = false;
    }
  });
})();
