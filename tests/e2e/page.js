// page.js: a page of Shoal as a browser shows it, without a browser: runs the page's script on the few methods of a document that it uses
// and prints the page with what it drew, and without what draws: scripts, policy, comment.
//   node tests/e2e/page.js report.html
"use strict";
const fs = require("fs"), vm = require("vm");

const escaped = text => text.replace(/[&<>"]/g, c => ({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\"": "&quot;"})[c]);

class Element {
    constructor(tag) {
        if (!/^[a-zA-Z0-9]+$/.test(tag) || tag === "script")
            throw new Error(`an element ${tag}`);
        this.tag = tag;
        this.attributes = new Map();
        this.style = {};
        this.children = [];
    }
    setAttribute(name, value) {
        if (!/^[a-zA-Z0-9-]+$/.test(name) || /^on|^src$|^style$/.test(name))
            throw new Error(`an attribute ${name}`);
        this.attributes.set(name, String(value));
    }
    append(...children) {
        this.children.push(...children.map(child => child instanceof Element ? child : String(child)));
    }
    get text() {
        const style = Object.entries(this.style).map(([name, value]) => `${name}: ${value};`).join(" ");
        const attributes = [...this.attributes, ...(style === "" ? [] : [["style", style]])].map(([name, value]) => ` ${name}="${escaped(value)}"`);
        const inside = this.children.map(child => child instanceof Element ? child.text : escaped(child)).join("");
        return `<${this.tag}${attributes.join("")}>${this.tag === "br" ? "" : `${inside}</${this.tag}>`}`;
    }
}

const page = fs.readFileSync(process.argv[2], "utf-8");
const between = (begin, end) => page.split(begin)[1].split(end)[0];
const main = new Element("main"), values = {textContent: between("<script type=\"application/json\" id=\"values\">", "</script>")};
const document = Object.seal({
    title: "",
    getElementById: name => name === "values" ? values : null,
    querySelector: name => name === "main" ? main : null,
    createElement: tag => Object.seal(new Element(tag)), // innerHTML, textContent and the like cannot be set
    createElementNS: (space, tag) => Object.seal(new Element(tag)),
});
vm.runInNewContext(between("<script>", "</script>"), {document}, {timeout: 60000});
const drawn = page.replace(/<!--[^]*?-->\n|<meta http-equiv[^>]*>\n|<noscript>[^]*?<\/noscript>\n/g, "").replace(/<script[^]*?<\/script>\n/g, "");
process.stdout.write(drawn.replace("<main></main>", () => main.text).replace(/<title>[^<]*/, () => `<title>${escaped(document.title)}`));
