/* What Go's linker leaves in every program: a note with its build ID. */
__asm__(".pushsection .note.go.buildid, \"a\", %note\n"
        ".balign 4\n"
        ".long 4, 4, 4\n"
        ".ascii \"Go\\0\\0\"\n"
        ".ascii \"id\\0\\0\"\n"
        ".popsection\n");

int main(void)
{
    return 0;
}
