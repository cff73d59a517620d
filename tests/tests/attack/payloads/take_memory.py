# Takes memory in one way and says that it lived.
import mmap, os, sys
kind, size = sys.argv[1], int(sys.argv[2]) << 20
block = b'x' * (1 << 20)
if kind == 'heap':
    kept = b'x' * size
elif kind == 'slowly':
    kept = [bytes(bytearray(block)) for _ in range(size >> 20)]
elif kind == 'mapping':
    kept = mmap.mmap(-1, size)
    for offset in range(0, size, 1 << 20):
        kept[offset:offset + (1 << 20)] = block
elif kind == 'memfd':
    descriptor = os.memfd_create('hog')
    for _ in range(size >> 20):
        os.write(descriptor, block)
elif kind == 'pipes':
    import fcntl
    kept = []
    while len(kept) << 20 < size:
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        try:
            fcntl.fcntl(writer, 1031, 1 << 20)
            while True:
                os.write(writer, block)
        except OSError:
            pass
        kept.append(reader)
print('lived')
