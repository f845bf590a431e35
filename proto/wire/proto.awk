# proto.awk: makes shoal.proto from the preprocessed shoal.proto.in; with -v form=names it makes a
# list of names for C: `#define PB_PULL_REPLY pb__pull_reply__descriptor`.

function camel(name,    part, count, i, made) {
  count = split(name, part, "_")
  for (i = 1; i <= count; i++)
    made = made substr(part[i], 1, 1) tolower(substr(part[i], 2))
  return made
}

# Takes one word of the messages; state: the kind of the next word. A field may have any name, even
# "message".
function word(w) {
  if (state == "name") {
    name = w
    number = 0
    state = "open"
  } else if (state == "open") {
    open(name)
    state = "label"
  } else if (state == "label" && w == "}") {
    if (form != "names")
      print "}"
    state = "message"
  } else if (state == "label") {
    label = (name in later) && number >= later[name] ? "optional" : w
    state = "type"
  } else if (state == "type") {
    type = w == "boolean" ? "bool" : w
    state = "field"
  } else if (state == "field") {
    if (form != "names")
      printf "  %s %s %s = %d;\n", label, type, w, ++number
    state = ";"
  } else {
    state = w == ";" ? "label" : "name"
  }
}

function open(name) {
  if (form == "names")
    printf "#define PB_%s pb__%s__descriptor\n", name, tolower(name)
  else
    printf "message %s {\n", camel(name)
}

!begun && $1 == "later" { for (i = 1; i <= NF; i += 3) later[$(i + 1)] = $(i + 2) }
begun { for (i = 1; i <= NF; i++) word($i) }
$1 == "messages_begin" {
  begun = 1
  print "// Made from proto/wire/wire.h by the build."
  if (form != "names")
    print "syntax = \"proto2\";\npackage pb;\n"
}
