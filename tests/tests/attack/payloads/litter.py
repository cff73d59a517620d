# Makes empty files with long names, and links to them, until it cannot.
import os, sys
os.makedirs('/workspace/litter', exist_ok=True)
for number in range(int(sys.argv[1])):
    try:
        open('/workspace/litter/' + str(number).rjust(200, 'x'), 'w').close()
    except OSError:
        break
