"""voice.py: one voice: rc for a status, PRIu64 for 64 bits, container_of for an owner, NULL for a pointer, and
comments call things by names that exist."""
import re

RULES = ("print", "rc", "owner", "null", "called")
PRINT = re.compile(r"\(unsigned long long(?: int)?\)|%[-+ #0-9.*]*ll[diuxX]")
OWNER = re.compile(r"\((?:const )?(?:char|uint8_t|unsigned char) \*\)[^;]*\boffsetof\b")
STATUS = re.compile(r"^[ \t]+int (?:\w+(?: = [^;,]+)?, )*(status|error|code|ret)\b(?= = |;|,)", re.M)
TYPE = r"(?:(?:static|const|volatile|struct|union|enum|unsigned|signed|_Thread_local)\s+)*[A-Za-z_]\w*(?:\s+const)?"
POINTER = re.compile(r"\*+(?:const |restrict )*([A-Za-z_]\w*)(?:\[\])?(?=\s*(?:[,;)=]|$))", re.M)
# A name of ours in a comment: words of two letters and more (x_i and head_t are of formulas), no path, no pattern.
CALLED = re.compile(r"(?<![\w/.*{<-])[a-z][a-z0-9]*(?:_[a-z0-9]{2,})+(?![\w*{]|\.[a-z]|/)")


def check_called(tree, breach):
    known = {source.stem for source in tree.sources.values()}
    for source in tree.sources.values():
        known.update(re.findall(r"\w+", source.code))
        known.update(word for text in re.findall(r'"[^"\n]*"', source.text) for word in re.findall(r"\w+", text))
    for file in [*tree.root.glob("tests/**/*.py"), *tree.files("CMakeLists.txt")]:
        known.update([file.stem, *re.findall(r"\w+", file.read_text(encoding="utf-8"))])
    beginnings = {name[:i] for name in known for i in range(len(name)) if name[i] == "_"}
    for source in tree.product():
        for start, comment in source.comments:
            for m in CALLED.finditer(comment):
                if m[0] not in known and m[0] not in beginnings and m[0].upper() not in known:
                    breach("called", source.path, source.line(start) + comment.count("\n", 0, m.start()), f"{m[0]}: nothing is called so")


def check(tree, breach):
    check_called(tree, breach)
    for source in tree.sources.values():
        for m in PRINT.finditer(source.bare):
            breach("print", source.path, source.line(m.start()), f"{m[0]}: 64 bits print with PRIu64, PRId64, PRIx64")
        for m in OWNER.finditer(source.code):
            if not re.search(r"#\s*define\s+container_of\b[^\n]*(?:\\\n[^\n]*)*$", source.code[:m.start()]):
                breach("owner", source.path, source.line(m.start()), "the owner of a member is found with container_of")
        for function in source.functions():
            check_function(source, function, breach)


def check_function(source, function, breach):
    body = source.code[function.start:function.end]
    for m in STATUS.finditer(body):
        if re.search(rf"\breturn {m[1]};", body):
            breach("rc", source.path, source.line(function.start + m.start(1)), f"{function.name}: the status is called rc, not {m[1]}")
    pointers = set(POINTER.findall(function.signature)) | set(declared_pointers(body))
    for m in re.finditer(r"(?<![\w)])!([A-Za-z_]\w*)\b(?!\s*(?:->|\[|\.|\())", body):
        if m[1] in pointers:
            breach("null", source.path, source.line(function.start + m.start()), f"!{m[1]}: a pointer is compared: {m[1]} == NULL")


def declared_pointers(body):
    for m in re.finditer(rf"^[ \t]+{TYPE}\s*(\*[^;]*);", body, re.M):
        if not re.match(r"[ \t]+return\b", m[0]):
            yield from POINTER.findall(re.sub(r"=[^,;]*", "=", m[1]))
