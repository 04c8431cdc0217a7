"""SVG reconstruction: write the SVG of a picture."""
