/* circle.c: compiled once for each step of a circle: HERE calls NEXT. */
int NEXT(int n);

int HERE(int n)
{
    return n == 0 ? 0 : NEXT(n - 1);
}
