/* tensor_npy.c: the head of an npy file: eight bytes of magic and version, the length of a text,
 * and the text, a Python literal: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.
 * https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html */
#include "proto/job/tensor.h"

#include <inttypes.h>
#include <string.h>

#define MAGIC "\x93NUMPY"
enum { MAGIC_BYTES = 6 };

struct text { /* the rest of a text */
    const char *at, *end;
};

static void blanks_skip(struct text *t)
{
    while (t->at < t->end && (*t->at == ' ' || *t->at == '\n' || *t->at == '\t' || *t->at == '\r'))
        t->at++;
}

/* Takes the word if it is next, behind blanks. */
static bool take(struct text *t, const char *word)
{
    const size_t bytes = strlen(word);
    blanks_skip(t);
    if ((size_t)(t->end - t->at) < bytes || memcmp(t->at, word, bytes) != 0)
        return false;
    t->at += bytes;
    return true;
}

/* A text in quotes, without escapes. */
static bool string_take(struct text *t, char out[32])
{
    blanks_skip(t);
    if (t->at == t->end || (*t->at != '\'' && *t->at != '"'))
        return false;
    const char *begin = t->at + 1, *end = memchr(begin, *t->at, (size_t)(t->end - begin));
    if (end == NULL || end - begin >= 32 || memchr(begin, '\\', (size_t)(end - begin)) != NULL)
        return false;
    memcpy(out, begin, (size_t)(end - begin));
    out[end - begin] = 0;
    t->at = end + 1;
    return true;
}

static bool number_take(struct text *t, uint64_t *out)
{
    blanks_skip(t);
    const char *begin = t->at;
    *out = 0;
    for (; t->at < t->end && *t->at >= '0' && *t->at <= '9'; t->at++) {
        if (*out > (UINT64_MAX >> 16) / 10) /* far beyond any file */
            return false;
        *out = *out * 10 + (uint64_t)(*t->at - '0');
    }
    (void)take(t, "L"); /* Python 2 */
    return t->at > begin;
}

static bool shape_take(struct text *t, struct tensor *out)
{
    out->rank = 0;
    if (!take(t, "("))
        return false;
    while (!take(t, ")")) {
        if (out->rank == TENSOR_RANK || !number_take(t, &out->shape[out->rank]))
            return false;
        out->rank++;
        if (take(t, ","))
            continue;
        return take(t, ")");
    }
    return true;
}

static int descr_read(const char *descr, struct tensor *out, struct err *e)
{
    static const struct {
        const char *descr;
        enum tensor_type type;
    } known[] = {{"<f4", TENSOR_F32}, {"<f8", TENSOR_F64}, {"<f2", TENSOR_F16}, {"<u8", TENSOR_U64},
                 {"<i8", TENSOR_I64}, {"<u4", TENSOR_U32}, {"<i4", TENSOR_I32}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i].descr, descr) == 0) {
            out->type = known[i].type;
            return 0;
        }
    if (descr[0] == '>')
        return err_set(e, SHOAL_E_DATA,
                       "its numbers are big-endian (%s): write them as little-endian, "
                       "a.astype(a.dtype.newbyteorder('<'))",
                       descr);
    return err_set(e, SHOAL_E_DATA,
                   "its elements are %s: f2, f4, f8, u4, i4, u8 or i8 are read, little-endian",
                   descr);
}

/* The values that a head must state, and those that were read. */
struct said {
    char descr[32];
    bool order, fortran, shape;
};

static bool member_take(struct text *t, struct said *s, struct tensor *out)
{
    char name[32];
    if (!string_take(t, name) || !take(t, ":"))
        return false;
    if (strcmp(name, "descr") == 0 && s->descr[0] == 0)
        return string_take(t, s->descr);
    if (strcmp(name, "fortran_order") == 0 && !s->order) {
        s->order = true;
        s->fortran = take(t, "True");
        return s->fortran || take(t, "False");
    }
    if (strcmp(name, "shape") == 0 && !s->shape) {
        s->shape = true;
        return shape_take(t, out);
    }
    return false;
}

static int head_read(struct text t, struct tensor *out, struct err *e)
{
    struct said s = {.descr = ""};
    bool good = take(&t, "{");
    while (good && !take(&t, "}")) {
        good = member_take(&t, &s, out);
        if (good && !take(&t, ",")) {
            good = take(&t, "}");
            break;
        }
    }
    blanks_skip(&t);
    if (!good || t.at != t.end || s.descr[0] == 0 || !s.order || !s.shape)
        return err_set(e, SHOAL_E_DATA,
                       "its head is not that of one plain array: {'descr': '<f4', "
                       "'fortran_order': False, 'shape': (3, 4), }");
    if (s.fortran)
        return err_set(e, SHOAL_E_DATA,
                       "it is in Fortran order: write it in C order, numpy.ascontiguousarray(a)");
    return descr_read(s.descr, out, e);
}

/* The bytes of the array must be the rest of the file. */
static int size_check(struct tensor *t, uint64_t rest, struct err *e)
{
    const uint64_t each = tensor_type_bytes(t->type);
    t->elements = 1;
    for (uint32_t i = 0; i < t->rank; i++)
        if (t->shape[i] != 0 && t->elements > UINT64_MAX / each / t->shape[i])
            return err_set(e, SHOAL_E_DATA, "its shape has more elements than any file");
        else
            t->elements *= t->shape[i];
    if (t->elements * each == rest)
        return 0;
    return err_set(e, SHOAL_E_DATA,
                   "its shape has %" PRIu64 " elements of %" PRIu64 " bytes, and %" PRIu64
                   " bytes follow the head: it is cut short, or has more than one array",
                   t->elements, each, rest);
}

int tensor_npy(const void *file, uint64_t bytes, struct tensor *out, struct err *e)
{
    const unsigned char *at = file;
    *out = (struct tensor){.name = ""};
    if (bytes < MAGIC_BYTES + 6 || memcmp(at, MAGIC, MAGIC_BYTES) != 0)
        return err_set(e, SHOAL_E_DATA, "it is no npy file");
    const unsigned version = at[6];
    if (version < 1 || version > 3 || at[7] != 0)
        return err_set(e, SHOAL_E_DATA, "it is of npy format %u.%u: 1.0, 2.0 and 3.0 are read",
                       version, at[7]);
    const uint32_t width = version == 1 ? 2 : 4;
    uint64_t head = 0;
    for (uint32_t i = 0; i < width; i++)
        head |= (uint64_t)at[8 + i] << 8 * i;
    out->at = 8 + width + head;
    if (head > TENSOR_NPY_HEAD || out->at > bytes)
        return err_set(e, SHOAL_E_DATA,
                       "its head has %" PRIu64 " bytes, more than the file or the %u allowed", head,
                       TENSOR_NPY_HEAD);
    const char *text = (const char *)at + 8 + width;
    int rc = head_read((struct text){text, text + head}, out, e);
    if (rc != 0)
        return rc;
    return size_check(out, bytes - out->at, e);
}
