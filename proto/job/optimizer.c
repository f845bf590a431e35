/* optimizer.c: the rows of optimizer.h, by number and by name. */
#include "proto/job/optimizer.h"

#include "proto/base/assert.h"

#include <stdio.h>
#include <string.h>

#define FACTS(number, KIND, label, where, ...) [number] = {.name = #label, __VA_ARGS__},
static const struct optimizer_facts facts[] = {OPTIMIZER_KINDS(FACTS)};
#define FACTS_COUNT (sizeof facts / sizeof facts[0])

const struct optimizer_facts *optimizer_facts(uint32_t kind)
{
    return kind < FACTS_COUNT && facts[kind].name != NULL ? &facts[kind] : NULL;
}

enum optimizer_kind optimizer_named(const char *name)
{
    uint32_t kind = 0;
    while (kind < FACTS_COUNT && (facts[kind].name == NULL || strcmp(facts[kind].name, name) != 0))
        kind++;
    SHOAL_ASSERT(kind < FACTS_COUNT);
    return (enum optimizer_kind)kind;
}

const char *optimizer_decaying(char *text, size_t capacity)
{
    size_t count = 0, said = 0, at = 0;
    for (size_t i = 0; i < FACTS_COUNT; i++)
        count += facts[i].decays;
    text[0] = '\0';
    for (size_t i = 0; i < FACTS_COUNT && at < capacity; i++)
        if (facts[i].decays) {
            const char *between = said == 0 ? "" : said + 1 == count ? " and " : ", ";
            at += (size_t)snprintf(text + at, capacity - at, "%s%s", between, facts[i].name);
            said++;
        }
    return text;
}
