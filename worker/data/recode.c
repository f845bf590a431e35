/* recode.c: UTF-16 to UTF-8, CR to LF. */
#include "worker/data/recode.h"

#include "proto/base/minmax.h"
#include "worker/data/framing.h"
#include "worker/data/kind.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

/* UTF-16 without a byte order mark: every second byte of Latin text is 0. */
static bool is_wide(const char *data, size_t bytes)
{
    if (bytes < 8)
        return false;
    for (size_t i = 0; i < 8; i += 2)
        if (data[i] < ' ' || data[i + 1] != 0)
            return false;
    return true;
}

/* True for text without LF that has two CR inside; binary data is no text. */
static bool ends_in_cr(const char *data, size_t bytes)
{
    uint32_t amid = 0;
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)data[i];
        if (c < ' ' && c != '\t' && c != '\r')
            return false;
        amid += c == '\r' && i + 1 < bytes;
    }
    return amid >= 2;
}

enum recode recode_of(const char *data, size_t bytes)
{
    if (framing_is_record(data, bytes))
        return RECODE_NONE;
    bool mark = bytes >= 2 && memcmp(data, "\xff\xfe", 2) == 0;
    bool utf32 = mark && bytes >= 4 && data[2] == 0 && data[3] == 0;
    if ((mark && !utf32) || is_wide(data, bytes))
        return RECODE_UTF16LE;
    if (bytes >= 2 && memcmp(data, "\xfe\xff", 2) == 0)
        return RECODE_UTF16BE;
    if (ends_in_cr(data, MIN(bytes, KIND_LOOK_BYTES)))
        return RECODE_CR;
    return RECODE_NONE;
}

static size_t utf8_put(uint32_t c, char *out)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

static int half_refuse(const struct recoder *r, const char *name, struct err *e)
{
    return err_set(e, SHOAL_E_DATA,
                   "%s: byte %" PRIu64 ": half a character of UTF-16: the file is damaged, or no "
                   "text; fetch it again",
                   name, r->at - 2);
}

/* Takes the unit that ends at r->at. */
static int unit_take(struct recoder *r, const char *name, uint32_t unit, char *out, size_t *given,
                     struct err *e)
{
    bool high = unit >= 0xd800 && unit < 0xdc00, low = unit >= 0xdc00 && unit < 0xe000;
    if (low != (r->high != 0))
        return half_refuse(r, name, e);
    if (high) {
        r->high = unit;
        return 0;
    }
    if (low)
        unit = 0x10000 + ((r->high - 0xd800) << 10) + (unit - 0xdc00);
    r->high = 0;
    if (unit != 0xfeff || r->at > 2) /* a byte order mark is no text */
        *given += utf8_put(unit, out + *given);
    return 0;
}

/* A CR and the LF behind it are one line end. */
static void returns_take(struct recoder *r, const char *data, size_t bytes, char *out,
                         size_t *given)
{
    for (size_t i = 0; i < bytes; i++) {
        bool second = data[i] == '\n' && r->returned;
        r->returned = data[i] == '\r';
        if (!second)
            out[(*given)++] = data[i] == '\r' ? '\n' : data[i];
    }
}

int recode_next(struct recoder *r, const char *name, const char *data, size_t bytes, char *out,
                size_t *given, struct err *e)
{
    int rc = 0;
    *given = 0;
    if (r->kind == RECODE_CR) {
        returns_take(r, data, bytes, out, given);
        return 0;
    }
    unsigned first = r->kind == RECODE_UTF16BE ? 8 : 0;
    for (size_t i = 0; i < bytes && rc == 0; i++) {
        r->odd[r->odds++] = (unsigned char)data[i];
        r->at++;
        if (r->odds < 2)
            continue;
        r->odds = 0;
        uint32_t unit = (uint32_t)r->odd[0] << first | (uint32_t)r->odd[1] << (8 - first);
        rc = unit_take(r, name, unit, out, given, e);
    }
    return rc;
}

int recode_end(const struct recoder *r, const char *name, struct err *e)
{
    if (r->odds == 0 && r->high == 0)
        return 0;
    return err_set(e, SHOAL_E_DATA,
                   "%s: the text ends within a character of UTF-16, after %" PRIu64
                   " bytes; fetch the file again",
                   name, r->at);
}
