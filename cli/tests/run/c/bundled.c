/* What a wheel brings along, in three parts of one source: a copy of libibverbs under another
   name, a plug-in that is linked to it, and a program that loads the plug-in for itself alone. */
#include <stdio.h>

#if defined(LIBRARY)

/* This copy knows of no device. */
void *ibv_get_device_list(int *count) {
    static void *none;
    if (count) *count = 0;
    return &none;
}
void ibv_free_device_list(void *list) { (void)list; }

#elif defined(PLUGIN)

void **ibv_get_device_list(int *count);
void ibv_free_device_list(void *list);

int count_devices(void) {
    int count;
    ibv_free_device_list(ibv_get_device_list(&count));
    return count;
}

#else

#include <dlfcn.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    void *plugin = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    int (*count_devices)(void) = plugin ? (int (*)(void))dlsym(plugin, "count_devices") : NULL;
    if (!count_devices) {
        fprintf(stderr, "%s\n", plugin ? dlerror() : "no plug-in");
        return 1;
    }
    printf("%s\n", count_devices() > 0 ? "devices" : "none");
    return 0;
}

#endif
