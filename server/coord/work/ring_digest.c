/* ring_digest.c: votes on the digests of a ring's members. */
#include "server/coord/work/ring_digest.h"

#include "proto/base/assert.h"

static bool has_told(const struct coord_digest_step *s, uint32_t member)
{
    return (s->told >> member & 1) != 0;
}

/* The member that has the digest of most, with the number of them in *votes. */
static uint32_t of_most(const struct coord_digest_step *s, uint32_t members, uint32_t *votes)
{
    uint32_t best = 0;
    *votes = 0;
    for (uint32_t i = 0; i < members; i++) {
        uint32_t alike = 0;
        for (uint32_t k = 0; k < members && has_told(s, i); k++)
            alike += has_told(s, k) && s->digest[k] == s->digest[i];
        if (alike > *votes) {
            *votes = alike;
            best = i;
        }
    }
    return best;
}

/* The verdict on a step when `of` members are asked: a majority of those is one. */
static struct coord_digest_verdict decide(const struct coord_digest_step *s, uint32_t members,
                                          uint32_t of)
{
    struct coord_digest_verdict v = {.word = DIGESTS_ALIKE, .step = s->step};
    uint32_t votes = 0, told = (uint32_t)__builtin_popcountll(s->told),
             best = of_most(s, members, &votes);
    for (uint32_t i = 0; i < members; i++)
        if (has_told(s, i) && s->digest[i] != s->digest[best])
            v.wrong |= UINT64_C(1) << i;
    if (v.wrong == 0)
        return v;
    v.one = best;
    v.other = (uint32_t)__builtin_ctzll(v.wrong);
    if (2 * votes > of)
        v.word = DIGESTS_WRONG;
    else
        v.word = told < of ? DIGESTS_OPEN : DIGESTS_LOST;
    return v;
}

void coord_digests_open(struct coord_digests *d, uint32_t members)
{
    SHOAL_ASSERT(members >= 1 && members <= WIRE_RING_MEMBERS);
    *d = (struct coord_digests){.members = members};
}

struct coord_digest_verdict coord_digests_note(struct coord_digests *d, uint32_t member,
                                               uint64_t step, uint64_t digest)
{
    struct coord_digest_step *s = &d->newest;
    SHOAL_ASSERT(member < d->members && step > 0);
    if (step > s->step) {
        d->before = d->newest;
        *s = (struct coord_digest_step){.step = step};
    } else if (step == d->before.step) {
        s = &d->before;
    } else if (step < s->step) {
        return (struct coord_digest_verdict){.word = DIGESTS_ALIKE};
    }
    if (!has_told(s, member)) {
        s->told |= UINT64_C(1) << member;
        s->digest[member] = digest;
    }
    return decide(s, d->members, d->members);
}

struct coord_digest_verdict coord_digests_close(struct coord_digests *d)
{
    struct coord_digest_verdict v =
        decide(&d->newest, d->members, (uint32_t)__builtin_popcountll(d->newest.told));
    if (v.word == DIGESTS_ALIKE)
        v = decide(&d->before, d->members, (uint32_t)__builtin_popcountll(d->before.told));
    *d = (struct coord_digests){.members = d->members};
    return v;
}
