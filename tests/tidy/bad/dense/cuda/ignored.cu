/* ignored.cu: a CUDA call whose status nobody looks at. */
void ignored(void *p)
{
    cudaFree(p);
}
