// Elements with texts in them. Nothing here reads a text as HTML.

/** An element with a class and children: elements, texts, or nothing. */
export function make(name, kind, ...children) {
  const element = document.createElement(name);
  if (kind) element.className = kind;
  element.append(...children.filter((each) => each !== null && each !== undefined && each !== ""));
  return element;
}

/** The same of a drawing, with attributes. */
export function draw(name, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}
