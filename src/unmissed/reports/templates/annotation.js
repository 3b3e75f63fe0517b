"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const questions = data.questions, key = "unmissed " + data.key;
  const by = id => document.getElementById(id);
  const buttons = [...document.querySelectorAll("[data-answer]")];
  let answers = {}, at = 0;

  function restore() {
    try {
      const kept = JSON.parse(localStorage.getItem(key)) || {};
      answers = kept.answers || {};
      by("annotator").value = kept.annotator || "";
    } catch (error) { by("kept").textContent = "This browser keeps no answers: save them before you close the page."; }
    const first = questions.findIndex((one, number) => !answers[number]);
    at = first < 0 ? 0 : first;
  }

  function keep() {
    try { localStorage.setItem(key, JSON.stringify({answers, annotator: by("annotator").value})); }
    catch (error) { by("kept").textContent = "This browser keeps no answers: save them before you close the page."; }
  }

  function show() {
    const done = Object.keys(answers).length;
    by("progress").textContent = done + " of " + questions.length + " answered; question " +
      Math.min(at + 1, questions.length) + (done && done === questions.length ? ". All are answered: save the file." : "");
    by("filled").style.width = questions.length ? 100 * done / questions.length + "%" : "0";
    by("back").disabled = at <= 0;
    by("next").disabled = at >= questions.length - 1;
    if (!questions.length) { by("title").textContent = "There are no questions."; buttons.forEach(one => { one.disabled = true; }); return; }
    const one = questions[at], text = data.texts[one.row];
    by("title").textContent = one.title;
    by("details").textContent = "row " + one.row + (one.title === one.label ? "" : ", label " + one.label) +
      ", probably missing: " + (100 * one.p).toFixed(0) + " %";
    by("text").hidden = text === null;
    by("text").textContent = text === null ? "" : text;
    by("text").scrollTop = 0;
    by("words").replaceChildren(...one.words.map(word => {
      const box = document.createElement("span");
      box.textContent = word;
      return box;
    }));
    buttons.forEach(button => button.setAttribute("aria-pressed", String(answers[at] === button.dataset.answer)));
  }

  function move(step) {
    at = Math.max(0, Math.min(questions.length - 1, at + step));
    show();
  }

  function answer(word) {
    if (!questions.length) return;
    answers[at] = word;
    keep();
    move(1);
  }

  const cell = text => /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  const safe = text => /^'*[=+\-@\t\r\n]/.test(text) ? "'" + text : text;

  function save() {
    const annotator = safe(by("annotator").value.trim());
    const lines = questions.map((one, number) => [...one.csv, answers[number] || "", annotator]);
    const table = [["row", "label", "answer", "annotator"], ...lines].map(line => line.map(cell).join(",")).join("\r\n");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([table + "\r\n"], {type: "text/csv"}));
    link.download = "answers.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);  // some browsers read it after the click
    by("kept").textContent = "Saved " + Object.keys(answers).length + " answers as answers.csv.";
  }

  buttons.forEach(button => button.addEventListener("click", () => answer(button.dataset.answer)));
  by("back").addEventListener("click", () => move(-1));
  by("next").addEventListener("click", () => move(1));
  by("save").addEventListener("click", save);
  by("annotator").addEventListener("input", keep);
  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.id === "annotator") return;
    const word = {y: "yes", n: "no", u: "unsure"}[event.key.toLowerCase()];
    if (word) { event.preventDefault(); answer(word); }
    if (event.key === "ArrowLeft") move(-1);
    if (event.key === "ArrowRight") move(1);
  });
  restore();
  show();
})();
