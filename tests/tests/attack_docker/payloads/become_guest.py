# Becomes the user the guest is, by every call there is, and stays.
import ctypes, os, time
libc = ctypes.CDLL(None)
GUEST = 65535
for number, arguments in ((105, (GUEST,)), (117, (-1, GUEST, -1)), (117, (GUEST, GUEST, GUEST)), (113, (-1, GUEST)),
                          (122, (GUEST,)), (105, (GUEST | 1 << 32,)), (117, (-1, -1, GUEST | 7 << 32))):
    libc.syscall(ctypes.c_long(number), *(ctypes.c_long(argument) for argument in arguments))
time.sleep(600)
