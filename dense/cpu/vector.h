/* vector.h: vectors of sixteen floats, whatever the machine's vector length; for the kernel bodies
 * only. */
#ifndef DENSE_CPU_VECTOR_H
#define DENSE_CPU_VECTOR_H

#include "proto/base/minmax.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef __AVX512F__
#include <immintrin.h>
#endif

#define VECTOR 16u
#define KERNEL_INLINE static inline __attribute__((always_inline))

typedef float vf __attribute__((vector_size(64)));
typedef int32_t vi __attribute__((vector_size(64)));
typedef uint32_t vu __attribute__((vector_size(64)));

KERNEL_INLINE vf vector_load(const float *p)
{
    vf v;
    memcpy(&v, p, sizeof v);
    return v;
}

KERNEL_INLINE void vector_store(float *p, vf v)
{
    memcpy(p, &v, sizeof v);
}

/* Loads the first n floats (n <= 16); the other lanes are zeros. */
KERNEL_INLINE vf vector_load_part(const float *p, uint32_t n)
{
#ifdef __AVX512F__
    return (vf)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
#else
    float part[VECTOR] = {0};
    for (uint32_t i = 0; i < n; i++)
        part[i] = p[i];
    return vector_load(part);
#endif
}

KERNEL_INLINE void vector_store_part(float *p, vf v, uint32_t n)
{
#ifdef __AVX512F__
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
#else
    float part[VECTOR];
    vector_store(part, v);
    for (uint32_t i = 0; i < n; i++)
        p[i] = part[i];
#endif
}

/* n is 16 in all but the last step of a row. */
KERNEL_INLINE vf vector_load_n(const float *p, uint32_t n)
{
    return n == VECTOR ? vector_load(p) : vector_load_part(p, n);
}

KERNEL_INLINE void vector_store_n(float *p, vf v, uint32_t n)
{
    if (n == VECTOR)
        vector_store(p, v);
    else
        vector_store_part(p, v, n);
}

/* Stores v, or adds it to what is there. */
KERNEL_INLINE void vector_put_n(float *to, vf v, uint32_t n, bool add)
{
    if (add)
        v = vector_load_n(to, n) + v;
    vector_store_n(to, v, n);
}

/* The value that a sum at this place begins with. */
KERNEL_INLINE float sum_begin(const float *to, bool add)
{
    if (add)
        return *to;
    return 0.0f;
}

KERNEL_INLINE uint32_t vector_left(uint32_t width, uint32_t at)
{
    return MIN(width - at, VECTOR);
}

KERNEL_INLINE vf vector_all(float x)
{
    return (vf){0} + x;
}

/* yes in the lanes where mask is all ones, otherwise no. */
KERNEL_INLINE vf vector_choose(vi mask, vf yes, vf no)
{
    return (vf)(((vi)yes & mask) | ((vi)no & ~mask));
}

/* Adds halves, then quarters, then eighths: the same order on every machine. */
KERNEL_INLINE float vector_sum(vf v)
{
    float part[VECTOR];
    vector_store(part, v);
    for (uint32_t half = VECTOR / 2; half > 0; half /= 2)
        for (uint32_t i = 0; i < half; i++)
            part[i] += part[i + half];
    return part[0];
}

#ifdef __AVX512F__
/* Interleaves sixteen rows: pairs of results alternate the elements of a[i] and a[i + 8]. Taking an
 * element's place (row, column) as eight bits, the first bit moves to the end. */
KERNEL_INLINE void vector_zip(const vf a[VECTOR], vf b[VECTOR])
{
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high =
        _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
#define VECTOR_ZIP(i)                                                                              \
    b[2 * (i)] = (vf)_mm512_permutex2var_ps((__m512)a[i], low, (__m512)a[(i) + 8]);                \
    b[2 * (i) + 1] = (vf)_mm512_permutex2var_ps((__m512)a[i], high, (__m512)a[(i) + 8]);
    VECTOR_ZIP(0)
    VECTOR_ZIP(1)
    VECTOR_ZIP(2) VECTOR_ZIP(3) VECTOR_ZIP(4) VECTOR_ZIP(5) VECTOR_ZIP(6) VECTOR_ZIP(7)
#undef VECTOR_ZIP
}
#endif

/* Transposes a square of sixteen rows: element j of row i becomes element i of row j. */
KERNEL_INLINE void vector_turn(vf tile[VECTOR])
{
#ifdef __AVX512F__
    vf a[VECTOR], b[VECTOR]; /* four rounds of vector_zip exchange row and column */
    vector_zip(tile, a);
    vector_zip(a, b);
    vector_zip(b, a);
    vector_zip(a, tile);
#else
    float part[VECTOR][VECTOR];
    memcpy(part, tile, sizeof part);
    for (uint32_t i = 0; i < VECTOR; i++)
        for (uint32_t j = 0; j < VECTOR; j++) {
            float *to = (float *)(void *)&tile[i];
            to[j] = part[j][i];
        }
#endif
}

/* e^x to 1e-7 relative (Cephes' polynomial); x is limited to [-87, 88]; NaN stays NaN. */
KERNEL_INLINE vf vector_exp(vf x)
{
    /* 1.5 * 2^23: adding it rounds to an integer in the low bits */
    const float magic = 12582912.0f;
    x = vector_choose(x > 88.0f, vector_all(88.0f), x);
    x = vector_choose(x < -87.0f, vector_all(-87.0f), x);
    vf shifted = x * 1.44269504088896341f + magic;
    vf n = shifted - magic;
    vf r = x - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    vf p = vector_all(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    vi power = ((vi)shifted - (vi)vector_all(magic) + 127) << 23;
    return p * (vf)power;
}

#endif
