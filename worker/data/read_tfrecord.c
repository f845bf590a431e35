/* read_tfrecord.c: a record that holds a tf.Example: features by name, each a list of bytes,
 * floats or whole numbers. Cells are the text that a csv would have: several values with the
 * column's separator between them, floats with nine digits.
 *
 * The messages: Example {Features features = 1}, Features {map<string, Feature> feature = 1}
 * whose entries have key = 1 and value = 2, and Feature {oneof list of bytes = 1, of floats = 2,
 * of whole numbers = 3}, each list {repeated value = 1}.
 *
 * 1. Parsing never recurses, and each length is compared with what is left before it is used.
 *    [test: tfrecord_cut_anywhere_is_refused_or_whole] [fuzz: fuzz_read_tfrecord]
 * 2. The text of a cell takes at most RECORD_ROOM bytes for each byte of its list: a whole
 *    number of one byte has up to three digits and a separator, one of ten up to 20; a float of
 *    four up to 16 and a separator. A record that needs more is malformed.
 *    [test: tfrecord_the_longest_floats_have_room]
 * 3. A feature has one list, so each value of a cell takes at least one byte of the record, which
 *    bounds the keys of a line. [test: tfrecord_a_feature_with_two_lists_is_refused] */
#include "worker/data/feature.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Bytes of a message. */
struct part {
    const char *at, *end;
};

struct example_walk {
    const struct features *features;
    struct cell *cell;
    char *room, *room_end; /* where text is made */
    char *reason;
};

/* The cell of a feature that the record lacks, and of one that is skipped. */
static const char unset[] = "", skipped[] = "";

static int refuse(char *reason, const char *what)
{
    snprintf(reason, REASON_BYTES, "no tf.Example: %s", what);
    return SHOAL_E_DATA;
}

static int feature_refuse(const struct example_walk *w, const struct part *name, const char *what)
{
    char shown[41];
    size_t n = (size_t)(name->end - name->at);
    if (n > sizeof shown - 1)
        n = sizeof shown - 1;
    for (size_t i = 0; i < n; i++)
        shown[i] = name->at[i] >= ' ' && name->at[i] < 127 ? name->at[i] : '?';
    shown[n] = '\0';
    snprintf(w->reason, REASON_BYTES, "feature \"%s\" %s", shown, what);
    return SHOAL_E_DATA;
}

/* ---- protobuf -------------------------------------------------------------------------------- */

static bool varint(struct part *p, uint64_t *out)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && p->at < p->end; shift += 7) {
        uint64_t byte = (unsigned char)*p->at++;
        if (shift == 63 && byte > 1)
            return false;
        value |= (byte & 0x7f) << shift;
        if (byte < 0x80) {
            *out = value;
            return true;
        }
    }
    return false;
}

enum { WIRE_VARINT, WIRE_8_BYTES, WIRE_BYTES, WIRE_4_BYTES = 5 };

struct member {
    uint32_t number;
    uint8_t wire;
    uint64_t value;   /* VARINT */
    struct part part; /* otherwise: its bytes */
};

/* Takes the next member of a message, which is not at its end. */
static bool member_next(struct part *p, struct member *m)
{
    uint64_t tag, bytes = 0;
    if (!varint(p, &tag) || tag >> 3 == 0 || tag >> 3 > 0x1fffffff)
        return false;
    m->number = (uint32_t)(tag >> 3);
    m->wire = tag & 7;
    if (m->wire == WIRE_VARINT)
        return varint(p, &m->value);
    if (m->wire == WIRE_8_BYTES)
        bytes = 8;
    else if (m->wire == WIRE_4_BYTES)
        bytes = 4;
    else if (m->wire != WIRE_BYTES || !varint(p, &bytes))
        return false;
    if (bytes > (uint64_t)(p->end - p->at)) /* 1 */
        return false;
    m->part = (struct part){p->at, p->at + bytes};
    p->at += bytes;
    return true;
}

/* ---- text ------------------------------------------------------------------------------------ */

static char *digits_put(uint64_t value, char *to)
{
    char text[20];
    unsigned n = 0;
    do
        text[n++] = (char)('0' + value % 10);
    while ((value /= 10) != 0);
    while (n > 0)
        *to++ = text[--n];
    return to;
}

static char *integer_put(int64_t value, char *to)
{
    uint64_t size = (uint64_t)value;
    if (value < 0) {
        *to++ = '-';
        size = 0 - size;
    }
    return digits_put(size, to);
}

/* A float between 1e-5 and 1e9 with nine digits, without zeros at the end. Nine digits of a double
 * product are off by one at most, and identify the float still: two floats are further apart. */
static char *decimal_put(double size, char *to)
{
    static const double tens[] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6, 1e7,
                                  1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14};
    unsigned places = 0;
    while (places < 14 && size * tens[places] < 1e8)
        places++;
    uint64_t value = (uint64_t)(size * tens[places] + 0.5);
    for (; places > 0 && value % 10 == 0; places--)
        value /= 10;
    uint64_t unit = 1;
    for (unsigned i = 0; i < places; i++)
        unit *= 10;
    to = digits_put(value / unit, to);
    if (places == 0)
        return to;
    *to++ = '.';
    for (uint64_t rest = value % unit; unit > 1; rest %= unit) {
        unit /= 10;
        *to++ = (char)('0' + rest / unit);
    }
    return to;
}

static char *float_put(uint32_t bits, char *to)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    double size = fabs((double)value);
    if (size >= 1e9 || (size < 1e-5 && size > 0) || !isfinite(value))
        return to + sprintf(to, "%.9g", (double)value);
    if (signbit(value) && size > 0)
        *to++ = '-';
    return decimal_put(size, to);
}

static uint32_t word_at(const char *p)
{
    const unsigned char *b = (const unsigned char *)p;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* ---- a feature's values ---------------------------------------------------------------------- */

/* The cell that grows while the values of a feature are taken. */
struct value_walk {
    struct example_walk *example;
    const struct part *name;
    struct cell *cell;
    char separator;
    uint32_t count;
};

/* A place for the text of the next value, which has at most `bytes`. NULL: there is none, because
 * the column has one value alone or the room is too small. */
static char *value_place(struct value_walk *v, size_t bytes)
{
    struct example_walk *w = v->example;
    if (v->count++ > 0 && v->separator == KEYED_ONE)
        return NULL;
    if ((size_t)(w->room_end - w->room) < bytes + 1) /* 2 */
        return NULL;
    if (v->count == 1)
        v->cell->text = w->room;
    else
        *w->room++ = v->separator;
    return w->room;
}

static int value_end(struct value_walk *v, char *end)
{
    v->example->room = end;
    v->cell->bytes = (uint32_t)(end - v->cell->text);
    return 0;
}

static int place_refuse(const struct value_walk *v)
{
    if (v->separator != KEYED_ONE)
        return feature_refuse(v->example, v->name, "has values whose text is too long");
    return feature_refuse(v->example, v->name,
                          "has several values, and its column takes one: data.columns: type multi "
                          "takes them, type skip leaves them out");
}

static int integer_take(struct value_walk *v, uint64_t value)
{
    char *to = value_place(v, 20);
    if (to == NULL)
        return place_refuse(v);
    return value_end(v, integer_put((int64_t)value, to));
}

static int float_take(struct value_walk *v, uint32_t bits)
{
    char *to = value_place(v, 16);
    if (to == NULL)
        return place_refuse(v);
    return value_end(v, float_put(bits, to));
}

static int bytes_copy(struct value_walk *v, const char *text, uint32_t bytes)
{
    char *to = value_place(v, bytes);
    if (to == NULL)
        return place_refuse(v);
    memcpy(to, text, bytes);
    return value_end(v, to + bytes);
}

/* A single value is used where it lies; of several, all are copied. The cell would be cut at a
 * separator within a value. */
static int bytes_take(struct value_walk *v, const struct part *value)
{
    uint32_t bytes = (uint32_t)(value->end - value->at);
    bool parted = v->separator != KEYED_ONE && v->separator != KEYED_ANY;
    if (parted && memchr(value->at, v->separator, bytes) != NULL)
        return feature_refuse(v->example, v->name,
                              "has a value with its column's separator in it: set another one in "
                              "data.columns, separator");
    if (v->count == 0) {
        v->count = 1;
        *v->cell = (struct cell){value->at, bytes};
        return 0;
    }
    if (v->separator == KEYED_ONE)
        return place_refuse(v);
    if (v->count == 1) {
        struct cell first = *v->cell;
        v->count = 0;
        int rc = bytes_copy(v, first.text, first.bytes);
        if (rc != 0)
            return rc;
    }
    return bytes_copy(v, value->at, bytes);
}

static int integers_take(struct value_walk *v, const struct member *m)
{
    struct part packed = m->part;
    uint64_t value;
    int rc = 0;
    if (m->wire == WIRE_VARINT)
        return integer_take(v, m->value);
    if (m->wire != WIRE_BYTES)
        return feature_refuse(v->example, v->name, "has a damaged list of whole numbers");
    while (rc == 0 && packed.at < packed.end)
        if (varint(&packed, &value))
            rc = integer_take(v, value);
        else
            rc = feature_refuse(v->example, v->name, "has a damaged list of whole numbers");
    return rc;
}

static int floats_take(struct value_walk *v, const struct member *m)
{
    int rc = 0;
    size_t bytes = (size_t)(m->part.end - m->part.at);
    if ((m->wire != WIRE_4_BYTES && m->wire != WIRE_BYTES) || bytes % 4 != 0)
        return feature_refuse(v->example, v->name, "has a damaged list of floats");
    for (const char *p = m->part.at; rc == 0 && p < m->part.end; p += 4)
        rc = float_take(v, word_at(p));
    return rc;
}

enum { LIST_BYTES = 1, LIST_FLOATS = 2, LIST_INTEGERS = 3 };

/* Takes the list of a feature. */
static int list_take(struct value_walk *v, uint32_t kind, struct part list)
{
    struct member m = {.number = 0};
    int rc = 0;
    while (rc == 0 && list.at < list.end) {
        m.part = (struct part){NULL, NULL};
        if (!member_next(&list, &m))
            return feature_refuse(v->example, v->name, "has a damaged list");
        if (m.number != 1)
            continue;
        if (kind == LIST_INTEGERS)
            rc = integers_take(v, &m);
        else if (kind == LIST_FLOATS)
            rc = floats_take(v, &m);
        else if (m.wire == WIRE_BYTES)
            rc = bytes_take(v, &m.part);
        else
            rc = feature_refuse(v->example, v->name, "has a damaged list of bytes");
    }
    return rc;
}

static int feature_take(struct example_walk *w, const struct part *name, struct part feature)
{
    const struct features *f = w->features;
    uint32_t column = keyed_find(&f->keyed, f->name, name->at, (uint32_t)(name->end - name->at));
    if (column == KEYED_NO_COLUMN)
        return feature_refuse(w, name,
                              "is neither in the first record nor in the job: name it in "
                              "data.columns (type: skip leaves it out)");
    struct cell *cell = &w->cell[column];
    if (cell->text != unset)
        return feature_refuse(w, name, "stands twice in the record");
    if (f->keyed.separator[column] == KEYED_SKIP) {
        *cell = (struct cell){skipped, 0};
        return 0;
    }
    struct value_walk v = {w, name, cell, f->keyed.separator[column], 0};
    struct member m;
    uint32_t lists = 0;
    int rc = 0;
    while (rc == 0 && feature.at < feature.end) {
        if (!member_next(&feature, &m))
            return feature_refuse(w, name, "is damaged");
        if (m.number > LIST_INTEGERS)
            continue;
        if (m.wire != WIRE_BYTES)
            return feature_refuse(w, name, "is damaged");
        if (lists++ > 0) /* 3 */
            return feature_refuse(w, name, "has two lists of values");
        rc = list_take(&v, m.number, m.part);
    }
    return rc;
}

/* ---- a record -------------------------------------------------------------------------------- */

/* The name and the feature of an entry of the map. */
static bool entry_parts(struct part entry, struct part *name, struct part *feature)
{
    struct member m;
    *name = *feature = (struct part){entry.at, entry.at};
    while (entry.at < entry.end) {
        if (!member_next(&entry, &m) || (m.number <= 2 && m.wire != WIRE_BYTES))
            return false;
        if (m.number == 1)
            *name = m.part;
        if (m.number == 2)
            *feature = m.part;
    }
    return true;
}

/* Calls `see` for each entry of a tf.Example. */
static int entries_walk(const char *record, size_t bytes,
                        int (*see)(void *context, const struct part *name, struct part feature),
                        void *context, char *reason)
{
    struct part example = {record, record + bytes}, name, feature;
    struct member features, entry;
    int rc = 0;
    while (rc == 0 && example.at < example.end) {
        if (!member_next(&example, &features))
            return refuse(reason, "the record is damaged or holds another message");
        if (features.number == 2 && features.wire == WIRE_BYTES)
            return refuse(reason, "it is a tf.SequenceExample, which is not read");
        if (features.number != 1 || features.wire != WIRE_BYTES)
            return refuse(reason, "it has a member that tf.Example lacks");
        while (rc == 0 && features.part.at < features.part.end) {
            if (!member_next(&features.part, &entry) || entry.number != 1 ||
                entry.wire != WIRE_BYTES || !entry_parts(entry.part, &name, &feature))
                return refuse(reason, "its map of features is damaged");
            rc = see(context, &name, feature);
        }
    }
    return rc;
}

static int feature_see(void *context, const struct part *name, struct part feature)
{
    return feature_take(context, name, feature);
}

static int tfrecord_line(const struct features *f, char *line, size_t bytes, struct cell *cell,
                         char *reason)
{
    struct example_walk w = {f, cell, line + bytes, line + bytes * (1 + RECORD_ROOM), reason};
    for (uint32_t i = 0; i < f->columns; i++)
        cell[i] = (struct cell){unset, 0};
    return entries_walk(line, bytes, feature_see, &w, reason);
}

struct head_walk {
    struct cell *cell;
    uint32_t count;
    char *reason;
};

static int head_see(void *context, const struct part *name, struct part feature)
{
    struct head_walk *w = context;
    (void)feature;
    if (w->count == CELLS_MAX) {
        snprintf(w->reason, REASON_BYTES, "more than %u features", CELLS_MAX);
        return SHOAL_E_DATA;
    }
    w->cell[w->count++] = (struct cell){name->at, (uint32_t)(name->end - name->at)};
    return 0;
}

static int tfrecord_head(const struct features *f, char *line, size_t bytes, struct cell *cell,
                         uint32_t *count, char *reason)
{
    struct head_walk w = {cell, 0, reason};
    (void)f;
    int rc = entries_walk(line, bytes, head_see, &w, reason);
    *count = w.count;
    if (rc == 0 && w.count == 0)
        return refuse(reason, "the first record has no feature");
    return rc;
}

const struct format format_tfrecord = {.line = tfrecord_line,
                                       .head = tfrecord_head,
                                       .named = true,
                                       .keyed = true,
                                       .framing = FRAMING_TFRECORD};
