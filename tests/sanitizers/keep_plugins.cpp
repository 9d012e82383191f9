// Plugins of OpenMPI stay loaded to the end, so that the leak checker knows whose code an address belongs to: AddressSanitizer can take
// short stacks then, which cost a third. Weak, because libraries and programs that use MPI all have it.
extern "C" __attribute__((weak)) int dlclose(void*) { return 0; }
