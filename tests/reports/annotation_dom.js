// Runs the script of a page of questions with a minimal document: node annotation_dom.js PAGE OUT
const fs = require("fs");
const html = fs.readFileSync(process.argv[2], "utf8");
const script = html.split("<script>")[1].split("</script>")[0];
const elements = {}, kept = {}, handlers = {};
let saved = "";
function element(id) {
  return elements[id] ??= {
    id, style: {}, attributes: {}, handlers: {}, dataset: {}, value: "",
    setAttribute(name, value) { this.attributes[name] = value; },
    addEventListener(type, handler) { this.handlers[type] = handler; },
    replaceChildren(...children) { this.children = children; },
  };
}
element("data").textContent = html.split('id="data">')[1].split("</script>")[0];
const buttons = ["yes", "no", "unsure"].map(word => Object.assign(element(word), {dataset: {answer: word}}));
global.document = {
  getElementById: element, querySelectorAll: () => buttons, createElement: () => ({click() {}}),
  addEventListener(type, handler) { handlers[type] = handler; },
};
global.localStorage = {getItem: key => kept[key] ?? null, setItem(key, value) { kept[key] = value; }};
global.Blob = class { constructor(parts) { saved = parts.join(""); } };
global.URL = {createObjectURL: () => "blob:", revokeObjectURL() {}};
global.setTimeout = () => 0;
eval(script);
const press = (key, id = "") => handlers.keydown({key, target: {id}, preventDefault() {}});
["y", "ArrowLeft", "n", "y"].forEach(key => press(key));  // the first answer is corrected
press("y", "annotator");  // letters in the field are no answers
console.log(elements.progress.textContent);
elements.annotator.value = "yun";
buttons[2].handlers.click();
elements.save.handlers.click();
fs.writeFileSync(process.argv[3], saved);
eval(script);  // the page is opened again
console.log(elements.progress.textContent);
